DROP TABLE llm_judgment_candidate, llm_judgment, llm_daily_usage, llm_call;
