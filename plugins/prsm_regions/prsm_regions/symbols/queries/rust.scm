(struct_item name: (type_identifier) @name body: (field_declaration_list) @body) @struct
(struct_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name body: (_) @body) @enum
(union_item name: (type_identifier) @name body: (_) @body) @union
(trait_item name: (type_identifier) @name body: (_) @body) @trait
(impl_item type: (type_identifier) @name body: (_) @body) @impl
(impl_item type: (generic_type type: (type_identifier) @name) body: (_) @body) @impl
(mod_item name: (identifier) @name body: (_) @body) @module
(function_item name: (identifier) @name body: (_) @body) @function
(function_signature_item name: (identifier) @name) @function
(const_item name: (identifier) @name) @constant
(static_item name: (identifier) @name) @variable
(type_item name: (type_identifier) @name) @type
(associated_type name: (type_identifier) @name) @type
(macro_definition name: (identifier) @name) @macro
(field_declaration name: (field_identifier) @name) @field
(enum_variant name: (identifier) @name) @variant
