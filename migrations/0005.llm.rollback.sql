DROP TABLE judgement;
DROP TABLE llm_call;
