-- Which places are taken.
-- $1 id, $2 places
SELECT seq FROM {schema}.message JOIN {schema}.conversation ON number = message.conversation
WHERE id = $1 AND seq = ANY ($2)
