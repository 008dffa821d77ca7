import { EventType } from '@ag-ui/client'
import { createParser } from 'eventsource-parser'
import { setTimeout as pause } from 'node:timers/promises'

import { isTerminal, Open, type AnyEvent } from './open.js'

/** How long to put up with a server that does not answer. */
export interface Patience {
  /** Milliseconds for which a server may be away, be it down, restarting or out of reach. */
  away: number
  /** Milliseconds for which a connection may be silent before it counts as dead. The server says something every 15 s. */
  silent: number
}

/** A server that said no, before any stream. */
export class RefusedError extends Error {
  constructor(readonly status: number, readonly body: string, readonly contentType: string) {
    super(`HTTP ${status}: ${body}`)
    this.name = 'RefusedError'
  }
}

/** A connection that lived as long as this was a good one. */
const settled = 10_000

/** Statuses of a server that will be there again: it is starting or shutting down, or a proxy before it does not find it. */
const temporary = new Set([408, 425, 429, 500, 502, 503, 504])

/**
 * Reads the events of a run until it ends, whatever becomes of the connection.
 *
 * The request must be one that can be made again: the server answers a run that it has with that run, from its
 * beginning. So after a cut all that is open is closed, the snapshots at the beginning of the answer take the client
 * back to where the run began, and it hears the rest anew, with the same ids. It throws a RefusedError if the server
 * refuses the first request; whatever else goes wrong is a RUN_ERROR. There is exactly one terminal event, the last.
 */
export async function* follow(request: (signal: AbortSignal, begun: boolean) => Promise<Response>, gone: AbortSignal, patience: Patience): AsyncGenerator<AnyEvent> {
  const open = new Open()
  let begun = false
  let most = 0 // events of one connection
  let troubled = 0 // since when
  let failures = 0
  for (;;) {
    const connection = new AbortController()
    const leave = () => connection.abort(gone.reason)
    gone.addEventListener('abort', leave)
    const watch = setTimeout(() => connection.abort(new Error(`the connection was silent for ${patience.silent} ms`)), patience.silent)
    const at = Date.now()
    let events = 0
    let cut: unknown = new Error('the connection ended before the run')
    let refused: RefusedError | undefined
    try {
      gone.throwIfAborted()
      const response = await request(connection.signal, begun)
      if (!response.ok) {
        cut = refused = new RefusedError(response.status, await response.text(), response.headers.get('content-type') ?? '')
      } else {
        const again = begun
        for await (const event of read(response, () => watch.refresh())) {
          if (event.type === EventType.RUN_ERROR && /^\d+$/.test(String(event.code))) {
            cut = new Error(String(event.message)) // the stream has to end, the run has not: its own codes are words
            break
          }
          if (event.type === EventType.RUN_STARTED && begun) continue
          if (again && events === 0) yield* open.close()
          events++
          begun = true
          open.note(event)
          yield again && event.type === EventType.MESSAGES_SNAPSHOT ? open.blank(event) : event
          if (isTerminal(event)) return
        }
      }
    } catch (error) {
      cut = error
    } finally {
      clearTimeout(watch)
      gone.removeEventListener('abort', leave)
      connection.abort()
    }
    if (gone.aborted) return
    if (refused && !temporary.has(refused.status)) {
      if (!begun) throw refused
      yield* fail(open, refused.message)
      return
    }
    const now = Date.now()
    if (events > most || now - at > settled) troubled = failures = 0
    most = Math.max(most, events)
    troubled ||= now
    if (now - troubled > patience.away) {
      yield* fail(open, `the server cannot be reached: ${reason(cut)}`)
      return
    }
    await pause(backoff(failures++), undefined, { signal: gone }).catch(() => {})
  }
}

function* fail(open: Open, message: string): Generator<AnyEvent> {
  yield* open.close()
  yield failure(message)
}

/** The event that ends a run of which nothing more can be heard. */
export const failure = (message: string): AnyEvent => ({ type: EventType.RUN_ERROR, message, code: 'unreachable' })

/** Says why something failed; fetch hides it in the cause. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message || error.cause.name}` : error.message
}

/** How long to wait before the next attempt: from 0.1 to 3 s, and not all clients at once. */
export const backoff = (failures: number) => Math.min(3000, 100 * 2 ** failures) * (0.5 + Math.random() / 2)

/** Reads the events of an answer. An event that is cut off in the middle does not count. */
async function* read(response: Response, sign: () => void): AsyncGenerator<AnyEvent> {
  if (!response.body) return
  const events: AnyEvent[] = []
  const parser = createParser({ onEvent: ({ data }) => events.push(JSON.parse(data)) })
  const text = new TextDecoder()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      sign()
      parser.feed(text.decode(value, { stream: true }))
      yield* events.splice(0)
    }
  } finally {
    reader.cancel().catch(() => {}) // it may be broken already
  }
}
