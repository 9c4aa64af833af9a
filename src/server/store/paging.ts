/** A page of a list, newest first: at most `limit` entries, older than the entry `before`. */
export type PageOf<Key> = { before?: Key | undefined; limit: number };
