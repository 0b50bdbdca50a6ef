"""Files: what the engine owns of the working trees that its agents write in.

keeper  git, and the shadows of folders: one thread at a time, told and never silent
quiet   which calls may write now, and the moment in which none does
"""
