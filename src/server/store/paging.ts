/** A page of a list, newest first: at most `limit` entries, older than the one called `before`. */
export type PageOf<Key> = { before?: Key | undefined; limit: number };
