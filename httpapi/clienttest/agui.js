// The AG-UI clients, and the schema that their authors give of what they read.
import { HttpAgent as HttpAgent1 } from '@ag-ui/client'
import { HttpAgent as HttpAgent0 } from '@ag-ui/client-0.0.59'
import { EventSchema } from '@ag-ui/core/schemas'
import Ajv2020 from 'ajv/dist/2020.js'
import { randomUUID } from 'node:crypto'
import { z } from 'zod/v4'

const schema = z.toJSONSchema(EventSchema, { unrepresentable: 'any', io: 'input' })
const validate = new Ajv2020({ strict: false, discriminator: false }).compile(schema)

/** Checks the text of an answer: its framing, and each event against the schema. It returns the events. */
export function readEvents(text) {
  return text
    .split('\n\n')
    .filter((frame) => frame && !frame.startsWith(':'))
    .map((frame) => {
      if (!/^data: \{[^\r\n]*\}$/.test(frame)) throw new Error(`a frame is not one line of data: ${frame}`)
      const event = JSON.parse(frame.slice('data: '.length))
      if (!validate(event)) throw new Error(`${frame}: ${JSON.stringify(validate.errors)}`)
      return event
    })
}

/** The clients by the version of what they speak. */
export const clients = { '1.0': HttpAgent1, '0.0.59': HttpAgent0 }

/**
 * An agent of a client, on a thread of its own. What the server sends is in answers, one for each run: its events once
 * they have ended well.
 */
export function newAgent(Client, url, config = {}) {
  const answers = []
  const agent = new Client({
    url,
    threadId: randomUUID(),
    ...config,
    async fetch(input, init) {
      const response = await fetch(input, init)
      if (!response.ok) return response
      const [theirs, ours] = response.body.tee()
      answers.push(new Response(ours).text().then(readEvents))
      answers.at(-1).catch(() => {}) // that is for those who ask
      return new Response(theirs, response)
    },
  })
  return Object.assign(agent, { answers })
}

/** Sends a message and waits for the end of its run. */
export async function say(agent, content, parameters, subscriber) {
  agent.addMessage({ id: randomUUID(), role: 'user', content })
  return run(agent, parameters, subscriber)
}

/**
 * Runs an agent. It returns what the client makes of the run, with its last event, and fails if an event is not what the
 * schema says.
 */
export async function run(agent, parameters, subscriber = {}) {
  let last
  const result = await agent.runAgent(parameters, {
    ...subscriber,
    onEvent(e) {
      last = e.event
      return subscriber.onEvent?.(e)
    },
  })
  await agent.answers.at(-1)
  return { ...result, last }
}
