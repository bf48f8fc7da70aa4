-- summary: Which tables the process has.
-- grain: one table
-- reads: [information_schema.tables]
-- columns:
--   table_schema: {doc: Its schema.}
--   table_name: {doc: Its name.}
SELECT table_schema, table_name
FROM information_schema.tables
WHERE table_schema <> 'information_schema'
ORDER BY table_schema, table_name
