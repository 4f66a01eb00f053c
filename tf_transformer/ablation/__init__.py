"""The paper's Table 3 on one's own data: its rows trained one after another, and set beside the paper's numbers."""
