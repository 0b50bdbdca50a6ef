"""Files as an engine has them: `SessionFiles` keeps the working trees that agents write in."""
