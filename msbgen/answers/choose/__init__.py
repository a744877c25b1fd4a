"""The cheapest contexts that keep deadlines: of one task, and of tasks that share resources."""
