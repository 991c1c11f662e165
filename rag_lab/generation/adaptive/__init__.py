"""What an adaptive search decides, and on what: how complex a question is, what evidence covers, what to ask next.

Everything here is pure: texts and arrays in, decisions out, without a corpus, a ledger or a model.
"""
