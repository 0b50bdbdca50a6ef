(class_definition name: (identifier) @name body: (_) @body) @class
(function_definition name: (identifier) @name body: (_) @body) @function
(assignment left: (identifier) @name right: (lambda body: (_) @body)) @function
(module (expression_statement (assignment left: (identifier) @name) @variable))
(module (type_alias_statement left: (type (identifier) @name)) @type)
(class_definition body: (block (expression_statement (assignment left: (identifier) @name) @field)))
