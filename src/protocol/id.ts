/** Whether a text can be a generation's id: up to 200 characters without white space and control characters. */
export function isUsableId(text: string): boolean {
  return /^[^\s\p{C}]{1,200}$/u.test(text);
}

/** Whether two ids are equal; UUIDs are compared without letter case. */
export function isSameId(a: string, b: string): boolean {
  return a === b || (isUuid(a) && a.toLowerCase() === b.toLowerCase());
}

export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

/** Whether a name is a UUID that begins with a text, in any letter case. */
export function beginsUuid(text: string, name: string): boolean {
  return isUuid(name) && name.toLowerCase().startsWith(text.toLowerCase());
}
