"""A question answered by measuring, fitting, choosing and measuring again."""
