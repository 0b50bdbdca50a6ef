(class_declaration name: (type_identifier) @name body: (_) @body) @class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @class
(interface_declaration name: (type_identifier) @name body: (_) @body) @interface
(enum_declaration name: (identifier) @name body: (_) @body) @enum
(type_alias_declaration name: (type_identifier) @name) @type
(internal_module name: (_) @name body: (_) @body) @namespace
(module name: (_) @name body: (_) @body) @namespace
(function_declaration name: (identifier) @name body: (_) @body) @function
(generator_function_declaration name: (identifier) @name body: (_) @body) @function
(function_signature name: (identifier) @name) @function
(method_definition name: (_) @name body: (_) @body) @function
(method_signature name: (_) @name) @function
(abstract_method_signature name: (_) @name) @function
(variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]) @function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @class
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(program (export_statement (variable_declaration (variable_declarator name: (identifier) @name) @variable)))
(ambient_declaration (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(public_field_definition name: (_) @name) @field
(interface_body (property_signature name: (_) @name) @field)
(enum_body (property_identifier) @name @variant)
(enum_assignment name: (_) @name) @variant
