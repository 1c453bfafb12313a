/**
 * Puts the keys of JSON text in the order in which `jsonb` gives them back:
 * the shorter ones first, those of one length by their bytes.
 */
export function inJsonbOrder(text: string): string {
  return JSON.stringify(JSON.parse(text, (_, value: unknown) => ordered(value)));
}

function ordered(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).map(([key, of]) => ({ key: Buffer.from(key), of }));
  entries.sort((a, b) => a.key.length - b.key.length || Buffer.compare(a.key, b.key));
  return Object.fromEntries(entries.map(({ key, of }) => [key.toString(), of]));
}
