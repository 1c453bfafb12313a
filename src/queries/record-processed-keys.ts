/**
 * Records the keys of jobs that are done, out of `source`: a table expression
 * with id, name, idempotency_key, input_hash and result of jobs that were
 * completed under their guard in the same statement. They expire after `$processed_keys_ms`, or never.
 *
 * A key whose time has run out is taken over. One that stands is not touched,
 * and has no row in the answer. Waits only for whoever is recording the same
 * key at this moment, which no two unfinished jobs can share.
 */
export const recordProcessedKeys = (source: string): string => `
  insert into {processedKeys} as processed (name, idempotency_key, job_id, input_hash, result, processed_at, expires_at)
  select name, idempotency_key, id, input_hash, result, statement_timestamp(),
    statement_timestamp() + $processed_keys_ms::float8 * interval '1 millisecond'
  from ${source} where idempotency_key is not null
  on conflict (name, idempotency_key) do update
  set job_id = excluded.job_id, input_hash = excluded.input_hash, result = excluded.result,
    processed_at = excluded.processed_at, expires_at = excluded.expires_at
  where processed.expires_at <= statement_timestamp()
  returning id`;
