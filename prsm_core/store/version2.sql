-- From version 1 to 2: where counts and costs come from, and what an agent may hand down.

ALTER TABLE turns ADD COLUMN usage_provenance TEXT; -- of a closed turn; see Provenance
ALTER TABLE turns ADD COLUMN cost_provenance TEXT;
ALTER TABLE agent_specs ADD COLUMN grant_limits TEXT; -- models, depth and budget; NULL: no limit

UPDATE turns SET
  usage_provenance = iif(coalesce(total_tokens, input_tokens, output_tokens) IS NULL,
                         'unknown', 'reported'),
  cost_provenance = iif(cost_usd IS NULL, 'unknown', 'reported')
WHERE closed_by IS NOT NULL;
