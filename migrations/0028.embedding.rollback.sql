-- Keys by embeddings go with them; who linked by one keeps the link until it is matched anew.
ALTER TABLE document_key NO FORCE ROW LEVEL SECURITY;
DELETE FROM document_key WHERE (starts_with(type, 'deal:') OR starts_with(type, 'seeks:')) AND starts_with(key, '≈');
ALTER TABLE document_key FORCE ROW LEVEL SECURITY;
DROP TABLE document_embedding;
