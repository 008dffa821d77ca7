// Under which ids the server keeps what AG-UI clients name by any text (package httpapi/agui: SessionID, RunID).
import { createHash } from 'node:crypto'

/** The name space of domain names, RFC 9562. */
const dns = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
const nil = '00000000-0000-0000-0000-000000000000'

/** The session that keeps a thread. */
export const sessionId = (threadId: string): string => mapped(dns, threadId)

/** The run that a client means by an id in a thread. */
export const runId = (threadId: string, id: string): string => mapped(sessionId(threadId), id)

/** The run that answers what a run asked, for clients that give both the same id. */
export const answerId = (asked: string): string => hashed(asked, 'resume')

/** The id itself if it is a UUID, else the UUID (version 5) of the text. */
function mapped(space: string, text: string): string {
  const uuid = parse(text)
  return uuid && uuid !== nil ? uuid : hashed(space, text) // the nil UUID stands for none
}

function hashed(space: string, text: string): string {
  const hash = createHash('sha1').update(Buffer.from(space.replaceAll('-', ''), 'hex')).update(text).digest().subarray(0, 16)
  hash[6] = (hash[6]! & 0x0f) | 0x50
  hash[8] = (hash[8]! & 0x3f) | 0x80
  return print(hash.toString('hex'))
}

/** Reads a UUID in any of the usual spellings: with hyphens, without, in braces, as a URN. */
function parse(text: string): string | undefined {
  const hyphened = /^(?:urn:uuid:)?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/i
  const found = hyphened.exec(text) ?? hyphened.exec(/^\{(.{36})\}$/.exec(text)?.[1] ?? '') ?? /^([0-9a-f]{32})$/i.exec(text)
  return found?.[1] && print(found[1].replaceAll('-', '').toLowerCase())
}

const print = (hex: string) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
