-- summary: The first rows of a table.
-- grain: one row of the table
-- reads: []
-- columns: {}
SELECT * FROM {{ table }} LIMIT 5
