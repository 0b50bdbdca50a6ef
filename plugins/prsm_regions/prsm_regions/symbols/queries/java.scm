(class_declaration name: (identifier) @name body: (_) @body) @class
(interface_declaration name: (identifier) @name body: (_) @body) @interface
(enum_declaration name: (identifier) @name body: (_) @body) @enum
(record_declaration name: (identifier) @name body: (_) @body) @record
(annotation_type_declaration name: (identifier) @name body: (_) @body) @annotation
(method_declaration name: (identifier) @name body: (_) @body) @method
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name body: (_) @body) @constructor
(compact_constructor_declaration name: (identifier) @name body: (_) @body) @constructor
(annotation_type_element_declaration name: (identifier) @name) @method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @field
(enum_constant name: (identifier) @name) @variant
