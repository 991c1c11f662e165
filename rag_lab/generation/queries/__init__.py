"""Other wordings of questions, to search by: what rules make of them, what a model is asked, and what may not be lost.

Everything here is pure: texts in, texts out, a batch at a time. English and Chinese.
"""
