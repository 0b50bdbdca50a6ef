"""What says who has the tool of `tool_plugin`; imported for nobody who has no labels."""


def wants(labels):
    return "steps" in labels
