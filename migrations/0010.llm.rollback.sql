DROP TABLE judgement_candidate, judgement, llm_day, llm_call;
