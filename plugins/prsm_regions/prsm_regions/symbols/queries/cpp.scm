(function_definition declarator: (function_declarator declarator: (identifier) @name) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) body: (_) @body) @function
(declaration declarator: (function_declarator declarator: (identifier) @name)) @function
(declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @function
(struct_specifier name: (type_identifier) @name body: (_) @body) @struct
(union_specifier name: (type_identifier) @name body: (_) @body) @union
(enum_specifier name: (type_identifier) @name body: (_) @body) @enum
(enumerator name: (identifier) @name) @variant
(type_definition declarator: (type_identifier) @name) @type
(type_definition declarator: (pointer_declarator declarator: (type_identifier) @name)) @type
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @type
(preproc_def name: (identifier) @name) @macro
(preproc_function_def name: (identifier) @name) @macro
(translation_unit (declaration declarator: (identifier) @name) @variable)
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(field_declaration declarator: (field_identifier) @name) @field
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @field
(field_declaration declarator: (array_declarator declarator: (field_identifier) @name)) @field
(class_specifier name: (type_identifier) @name body: (_) @body) @class
(namespace_definition name: (_) @name body: (_) @body) @namespace
(alias_declaration name: (type_identifier) @name) @type
(concept_definition name: (identifier) @name) @concept
(function_definition declarator: (reference_declarator (function_declarator declarator: (identifier) @name)) body: (_) @body) @function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name)) body: (_) @body) @method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier scope: (_) @owner name: (identifier) @name))) body: (_) @body) @method
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier scope: (_) @owner name: [(identifier) (operator_name)] @name))) body: (_) @body) @method
(function_definition declarator: (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name)) @method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name)) body: (_) @body) @method
(function_definition declarator: (reference_declarator (function_declarator declarator: [(field_identifier) (operator_name)] @name)) body: (_) @body) @method
(field_declaration declarator: (function_declarator declarator: [(field_identifier) (operator_name)] @name)) @method
(field_declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @method
(field_declaration declarator: (reference_declarator (function_declarator declarator: [(field_identifier) (operator_name)] @name))) @method
(declaration declarator: (function_declarator declarator: (destructor_name) @name)) @method
(function_definition declarator: (function_declarator declarator: (qualified_identifier name: (qualified_identifier scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name))) body: (_) @body) @method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier name: (qualified_identifier scope: (_) @owner name: (identifier) @name)))) body: (_) @body) @method
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier name: (qualified_identifier scope: (_) @owner name: [(identifier) (operator_name)] @name)))) body: (_) @body) @method
