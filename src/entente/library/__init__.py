"""What `import entente` gives: the product's functions for programs, over frames and files."""
