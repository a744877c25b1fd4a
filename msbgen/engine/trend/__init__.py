"""How the state depends on the resource context, learned from few contexts."""
