// A page with CopilotKit's chat: a tool that the page runs, an approval, and notes that page and agent share.
import '@copilotkit/react-core/v2/styles.css'
import './page.css'

import { CopilotChat, CopilotChatConfigurationProvider, CopilotKitProvider, useAgent, useConfigureSuggestions, useFrontendTool, useInterrupt } from '@copilotkit/react-core/v2'
import { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { z } from 'zod'

/** The thread is in the address, so it is still the same when the page is loaded anew. */
function threadOfAddress(): string {
  const address = new URL(location.href)
  const thread = address.searchParams.get('thread') ?? crypto.randomUUID()
  address.searchParams.set('thread', thread)
  history.replaceState(null, '', address)
  return thread
}

/** What one may say. A real model needs the first line only; the offline one does what the others say. */
const suggestions = [
  { title: 'Paint the page', message: 'Paint the page.\n/call paint {"color":"honeydew"}\n/then\n/say I like that color.' },
  { title: 'Take a note', message: 'Note that milk is out.\n/call note {"text":"buy milk"}\n/then\n/say I noted it.' },
  { title: 'Order', message: 'Order a bicycle.\n/call order {"what":"a bicycle"}' },
  { title: 'Tell a story', message: `Tell a story.\n/slow 80\n/say ${'Once upon a time there was a page that was loaded anew in the middle of a story. '.repeat(8)}The end.` },
]

function Assistant() {
  const [color, setColor] = useState('white')
  const { agent } = useAgent()
  const notes: string[] = agent.state?.notes ?? []

  useFrontendTool({
    name: 'paint',
    description: 'Paints the background of the page.',
    parameters: z.object({ color: z.string().describe('a CSS color') }),
    handler: async ({ color }) => {
      setColor(color)
      return `the page is ${color}`
    },
  })
  useInterrupt({
    render: ({ interrupt, resolve }) => (
      <div role="alertdialog" className="question">
        <p>
          {interrupt?.message} <code>{JSON.stringify(interrupt?.metadata?.payload)}</code>
        </p>
        <button onClick={() => void resolve({ approved: true })}>Approve</button>
        <button onClick={() => void resolve({ approved: false, reason: 'the user does not want it' })}>Refuse</button>
      </div>
    ),
  })
  useConfigureSuggestions({ suggestions, available: 'always' })

  return (
    <main style={{ background: color }}>
      <aside>
        <h1>Notes</h1>
        <ul aria-label="Notes">
          {notes.map((note, i) => (
            <li key={i}>{note}</li>
          ))}
        </ul>
        <button onClick={() => agent.setState({ ...agent.state, notes: [...notes, 'a note of the page'] })}>Add a note</button>
      </aside>
      <CopilotChat />
    </main>
  )
}

createRoot(document.getElementById('root')!).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" enableInspector={false}>
    <CopilotChatConfigurationProvider threadId={threadOfAddress()}>
      <Assistant />
    </CopilotChatConfigurationProvider>
  </CopilotKitProvider>,
)
