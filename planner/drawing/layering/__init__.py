"""The layout of a graph in layers: rows of items from top to bottom, and links that lead down.

Comes in: items with their sizes, and links. Goes out: a box for each item and a way for each link.
`ranks` chooses the row of each item, `rows` cuts long links, `order` sorts each row, `coordinates` places its items.
Read `layered` first."""
