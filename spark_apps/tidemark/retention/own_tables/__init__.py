"""What purge deletes of Tidemark's own tables, one module for each of them."""
