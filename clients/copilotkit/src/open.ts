import { EventType, type BaseEvent, type Message } from '@ag-ui/client'

/** An event with whatever belongs to its type. */
export type AnyEvent = BaseEvent & Record<string, unknown>

export const isTerminal = (e: BaseEvent) => e.type === EventType.RUN_FINISHED || e.type === EventType.RUN_ERROR

/** The kinds of what is opened by one event and closed by another, in the order in which they are closed. */
const kinds = [
  { start: EventType.TEXT_MESSAGE_START, end: EventType.TEXT_MESSAGE_END, key: 'messageId' },
  { start: EventType.REASONING_MESSAGE_START, end: EventType.REASONING_MESSAGE_END, key: 'messageId' },
  { start: EventType.REASONING_START, end: EventType.REASONING_END, key: 'messageId' },
  { start: EventType.TOOL_CALL_START, end: EventType.TOOL_CALL_END, key: 'toolCallId' },
  { start: EventType.STEP_STARTED, end: EventType.STEP_FINISHED, key: 'stepName' },
]

/** What a stream of events has left open. */
export class Open {
  #items = new Map<string, AnyEvent>() // the events that close them
  #reasoning = new Set<string>() // every reasoning message of the run

  /** Notes an event. */
  note(event: AnyEvent): void {
    for (const { start, end, key } of kinds) {
      if (event.type === start) this.#items.set(`${end} ${event[key]}`, { type: end, [key]: event[key] })
      if (event.type === end) this.#items.delete(`${end} ${event[key]}`)
    }
    if (event.type === EventType.REASONING_MESSAGE_START) this.#reasoning.add(String(event.messageId))
  }

  /** Returns the events that close what is open. Nothing is then. */
  close(): AnyEvent[] {
    const events = kinds.flatMap(({ end }) => [...this.#items.values()].filter((e) => e.type === end))
    this.#items.clear()
    return events
  }

  /**
   * Returns a snapshot of the messages such that what follows it can be said again. Clients forget the messages that a
   * snapshot leaves out, but reasoning only if there is some in the snapshot, and would append to it.
   */
  blank(snapshot: AnyEvent): AnyEvent {
    const messages = snapshot.messages as Message[]
    const missing = [...this.#reasoning].filter((id) => !messages.some((m) => m.id === id))
    return { ...snapshot, messages: [...messages, ...missing.map((id) => ({ id, role: 'reasoning', content: '' }))] }
  }
}
