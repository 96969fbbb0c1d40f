"""Dead letters for operators: search, groups, actions, bulk operations, exports."""
