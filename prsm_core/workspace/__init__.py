"""The user's files: which repository they belong to and what happens to them.

identity    which repository a folder belongs to
references  what a person refers to by `@path`, and what is there
images      images of prompts, kept by what they hold, and the marks that cite them
"""
