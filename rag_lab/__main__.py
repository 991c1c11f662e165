"""``python -m rag_lab``: the same as ``rag-lab``."""

from rag_lab.cli import main

if __name__ == "__main__":
    main()
