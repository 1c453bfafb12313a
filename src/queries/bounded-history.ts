/**
 * A job's errors with room for one more: the last ten are kept. What is not a
 * list, as somebody may have written it, is dropped: no attempt could end.
 */
export const boundedHistory = `
  case when jsonb_typeof(error_history) is distinct from 'array' then '[]'
    when jsonb_array_length(error_history) >= 10 then error_history - 0
    else error_history end`;
