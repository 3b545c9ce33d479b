/** Arrays of numbers, as nested lists or packed in base64. */

const KINDS = { f4: Float32Array, i2: Int16Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

/** Numbers in rows: `shape`, and `values` in C order with NaN where something is missing. */
export class Numbers {
  constructor(shape, values) {
    this.shape = shape;
    this.values = values;
  }

  /** The length of the first axis. */
  get length() {
    return this.shape[0] ?? 0;
  }

  /** Return what is at an index of the first axis: an array of one axis fewer, or a number. */
  at(index) {
    if (this.shape.length === 1) return this.values[index];
    const rest = this.shape.slice(1);
    const size = rest.reduce((product, length) => product * length, 1);
    return new Numbers(rest, this.values.subarray(index * size, (index + 1) * size));
  }

  /** Return nested lists with null where something is missing. */
  lists() {
    if (this.shape.length === 1) return Array.from(this.values, (value) => (Number.isNaN(value) ? null : value));
    return Array.from({ length: this.length }, (_, index) => this.at(index).lists());
  }
}

/** Return an array of a document as `Numbers`; null stays null. */
export function decode(field) {
  if (field === null || field === undefined || field instanceof Numbers) return field ?? null;
  return Array.isArray(field) ? fromLists(field) : fromPacked(field);
}

/** Return an array of a document as nested lists; null stays null. */
export function lists(field) {
  if (field === null || field === undefined || Array.isArray(field)) return field ?? null;
  return decode(field).lists();
}

function fromLists(field) {
  const shape = [];
  for (let level = field; Array.isArray(level); level = level[0]) shape.push(level.length);
  const flat = field.flat(Infinity);
  return new Numbers(
    shape,
    Float64Array.from(flat, (value) => value ?? NaN),
  );
}

function fromPacked({ dtype, shape, scale = 1, offset = 0, data, missing = null }) {
  const text = atob(data);
  const raw = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) raw[index] = text.charCodeAt(index);
  const packed = new KINDS[dtype](raw.buffer);
  const none = missing ?? (dtype === "i2" ? -32768 : null);
  const values = new Float32Array(packed.length);
  for (let index = 0; index < packed.length; index += 1)
    values[index] = packed[index] === none ? NaN : packed[index] * scale + offset;
  return new Numbers(shape, values);
}

/** Return the sum of products of two lists. */
export function dot(a, b) {
  return a.reduce((sum, value, index) => (value === null || b[index] === null ? NaN : sum + value * b[index]), 0);
}

/** Return which rows no other row dominates; larger is better. */
export function nondominated(rows) {
  const better = (a, b) => a.every((value, k) => value >= b[k]) && a.some((value, k) => value > b[k]);
  return rows.filter((row) => row.every((value) => value !== null) && !rows.some((other) => better(other, row)));
}
