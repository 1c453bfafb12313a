import type { TableNames } from "../schema/table-names.js";
import type { Statement, Value } from "./executor.js";

/** A statement's text, ready to be bound to the values of one call. */
export interface Template {
  /** @throws {TypeError} when a value that the text names is missing: a bug of ours. */
  bind(values: Readonly<Record<string, Value>>): Statement;
}

/**
 * Prepares a statement's text: `{jobs}` becomes a table, `{channel}` the channel, `$floor` a numbered parameter.
 *
 * Comments and line breaks go first, then the names come in: a quoted name
 * may hold whatever looks like a comment.
 */
export function template(name: string, text: string, tables: TableNames): Template {
  const parameters: string[] = [];
  const compact = text.replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ").trim();
  const final = compact
    .replaceAll(/\$([a-z]\w*)/gi, (_, parameter: string) => {
      if (!parameters.includes(parameter)) parameters.push(parameter);
      return `$${parameters.indexOf(parameter) + 1}`;
    })
    // Whatever else has braces is SQL's.
    .replaceAll(/\{(\w+)\}/g, (whole, place: keyof TableNames) => tables[place] ?? whole);
  return {
    bind(values) {
      const bound = parameters.map((parameter) => {
        const value = values[parameter];
        if (value === undefined)
          throw new TypeError(`Statement ${name} lacks its value ${parameter}.`);
        return value;
      });
      return { name: `drizzle_queue_${name}`, text: final, values: bound };
    },
  };
}
