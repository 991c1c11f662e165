"""rag_lab."""
