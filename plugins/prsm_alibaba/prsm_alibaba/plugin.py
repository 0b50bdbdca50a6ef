"""What this distribution contributes: the provider `alibaba`."""
