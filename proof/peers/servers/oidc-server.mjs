// An authorization server nobody here wrote: oidc-provider, with clients that get tokens in their own name.
//   oidc-server.mjs PORT
//
// A token is for the resource it is asked for with. The client `opaque` gets tokens that only this server can read; `gate` may ask
// about them. All secrets are `geheim`.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.env.TASKGATE_PEERS, 'oidc', 'package.json'));
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);

const port = Number(process.argv[2]);
const client = (client_id, more) => ({
  client_id,
  client_secret: 'geheim',
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
  token_endpoint_auth_method: 'client_secret_basic',
  ...more,
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  ttl: { ClientCredentials: 300 },
  clients: [client('ann'), client('bob'), client('opaque'), client('gate')],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true, allowedPolicy: (_, asking) => asking.clientId === 'gate' },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource, asking) => ({
        scope: 'mcp stop',
        audience: resource,
        accessTokenTTL: 300,
        accessTokenFormat: asking.clientId === 'opaque' ? 'opaque' : 'jwt',
      }),
    },
  },
});
provider.listen(port, '127.0.0.1', () => console.error('peer listens'));
