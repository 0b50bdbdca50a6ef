(class_declaration name: (identifier) @name body: (_) @body) @class
(function_declaration name: (identifier) @name body: (_) @body) @function
(generator_function_declaration name: (identifier) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @function
(variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]) @function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @class
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(program (export_statement (variable_declaration (variable_declarator name: (identifier) @name) @variable)))
(field_definition property: (_) @name) @field
