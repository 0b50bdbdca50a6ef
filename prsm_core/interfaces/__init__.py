"""What others implement: providers, checks, scorers, sinks, frontends, stores."""
