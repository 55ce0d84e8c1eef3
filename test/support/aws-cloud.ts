import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import { join } from 'node:path';
import { Hash } from '@smithy/core/serde';
import { SignatureV4 } from '@smithy/signature-v4';
import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import type { Credentials } from '../../src/s3/types';
import { Authority } from './authority';
import { joinPort, listenOnLoopback, type LoopbackServer } from './loopback';
import type { Scratch } from './temp-dir';
import type { Socket } from 'node:net';

export interface ConnectProxy extends LoopbackServer {
  /** Every host that a tunnel was requested for, in order. */
  hosts: string[];
}

/**
 * Starts a forward proxy on 127.0.0.1. The tunnels to all hosts lead to one port on 127.0.0.1, so that the real commands
 * reach a test server under the names of AWS.
 * @param login `user:password` that the proxy requires
 * @param status the status for a tunnel; undefined opens it, and 'silent' never answers
 * @param tls key and certificate of a proxy that speaks TLS
 */
export async function startConnectProxy(
  targetPort: number,
  login?: string,
  status: (host: string, count: number) => number | 'silent' | undefined = () => undefined,
  tls?: { key: string; cert: string },
): Promise<ConnectProxy> {
  const hosts: string[] = [];
  const refuse: http.RequestListener = (_, reply) => reply.writeHead(405).end();
  const server = tls === undefined ? http.createServer(refuse) : https.createServer(tls, refuse);
  server.on('connect', (request: http.IncomingMessage, client: Socket) => {
    const host = (request.url ?? '').replace(/:\d+$/, '');
    hosts.push(host);
    client.on('error', () => undefined);
    const expected = login === undefined ? undefined : `Basic ${Buffer.from(login).toString('base64')}`;
    const rejected = request.headers['proxy-authorization'] === expected ? status(host, hosts.length) : 407;
    if (rejected === 'silent') return;
    if (rejected !== undefined) return void client.end(`HTTP/1.1 ${rejected} Rejected\r\n\r\n`);
    client.write('HTTP/1.1 200 OK\r\n\r\n');
    joinPort(client, targetPort);
  });
  return { ...(await listenOnLoopback(server)), hosts };
}

/** An answer of AWS: an error, as the documentation of AWS has it. */
export interface AwsError {
  status: number;
  code: string;
  message: string;
  headers?: Record<string, string>;
  /** More elements of the error. */
  elements?: Record<string, string>;
}

export interface CloudRequest {
  host: string;
  method: string;
  /** Path and query. */
  url: string;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

export interface Identity extends Credentials {
  /** The session has ended. */
  expired?: boolean;
}

export interface CloudBucket {
  region: string;
  /** How a server of another region redirects; default: 301. */
  redirect?: 301 | 307 | 400 | 'AuthorizationHeaderMalformed' | 'without region';
  /** An error instead of the object store's answer, such as that of a policy. */
  refuse?: (request: CloudRequest) => AwsError | undefined;
}

export interface Cloud {
  /** Who may sign requests, by access key. */
  identities: Map<string, Identity>;
  buckets: Map<string, CloudBucket>;
  /** Errors of STS and SSO, by the name of the role that is requested. */
  refusals: Map<string, AwsError>;
  /** Hosts and signing regions of all requests, `HOST in REGION`. */
  sites: Set<string>;
  /** The authority of all certificates. */
  authority: Authority;
  /** Port that speaks TLS for every host name of AWS. */
  port: number;
  proxy: ConnectProxy;
  /** Credentials that STS and SSO issue; they are identities too. */
  issued: { sts: Identity; sso: Identity };
  /** Environment of a command on a machine with this cloud, without credentials. */
  env: NodeJS.ProcessEnv;
}

export const PROXY_LOGIN = { user: 'proxy-user', password: 'proxy#secret%' };
export const ACCOUNT_KEYS: Identity = { accessKeyId: 'AKIAACCOUNT', secretAccessKey: 'account-secret-key' };
/** Variables with the keys of the account. */
export const KEYS = {
  AWS_ACCESS_KEY_ID: ACCOUNT_KEYS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: ACCOUNT_KEYS.secretAccessKey,
};
export const NO_KEYS = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' };

/**
 * Starts servers on loopback that answer as AWS does: S3 in regions, with the bucket in the host name and the objects
 * on a real S3 server; STS and SSO. They speak TLS with certificates of their own authority, and a forward proxy that
 * requires a password leads to them. S3 verifies signatures, regions and sessions.
 * @param store endpoint of the real S3 server, whose buckets the test creates
 */
export async function startCloud(scratch: Scratch, store: string): Promise<Cloud> {
  const authority = new Authority(scratch);
  const issued = {
    sts: { accessKeyId: 'ASIASTS', secretAccessKey: 'sts-secret-key', sessionToken: 'sts-session-token' },
    sso: { accessKeyId: 'ASIASSO', secretAccessKey: 'sso-secret-key', sessionToken: 'sso-session-token' },
  };
  const identities = new Map([ACCOUNT_KEYS, issued.sts, issued.sso].map((one: Identity) => [one.accessKeyId, one]));
  const cloud: Omit<Cloud, 'port' | 'proxy' | 'env'> = {
    identities,
    buckets: new Map(),
    refusals: new Map(),
    sites: new Set(),
    authority,
    issued,
  };

  const server = https.createServer(
    { ...authority.loopback, SNICallback: (host, callback) => callback(null, authority.contextFor(host)) },
    (incoming, reply) => {
      const chunks: Buffer[] = [];
      incoming.on('error', () => undefined);
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () => {
        const { method = '', url = '', headers } = incoming;
        const host = (headers.host ?? '').replace(/:\d+$/, '');
        void answer(cloud, store, { host, method, url, headers, body: Buffer.concat(chunks) }, reply);
      });
    },
  );
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  const { user, password } = PROXY_LOGIN;
  const proxy = await startConnectProxy(port, `${user}:${password}`);
  scratch.defer(() => proxy.stop());
  const none = join(scratch.directory, 'none');
  const env: NodeJS.ProcessEnv = {
    // A variable of the developer that is not here would change the tests.
    ...Object.fromEntries(
      Object.keys(process.env).flatMap((name) => (/^AWS_|_proxy$/i.test(name) ? [[name, '']] : [])),
    ),
    HTTPS_PROXY: `http://${user}:${encodeURIComponent(password)}@127.0.0.1:${proxy.port}`,
    NODE_EXTRA_CA_CERTS: authority.caFile,
    AWS_CONFIG_FILE: none,
    AWS_SHARED_CREDENTIALS_FILE: none,
    AWS_EC2_METADATA_DISABLED: 'true',
    HOME: scratch.directory,
    XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'] ?? join(process.env['HOME'] ?? '', '.cache'),
  };
  return { ...cloud, port, proxy, env };
}

async function answer(
  cloud: Pick<Cloud, 'identities' | 'buckets' | 'refusals' | 'sites' | 'issued'>,
  store: string,
  request: CloudRequest,
  reply: http.ServerResponse,
): Promise<void> {
  const [service = ''] = request.host.split('.');
  const role = /role(?:%2F|_name=)([\w-]+)/.exec(request.url + request.body.toString())?.[1] ?? '';
  const refusal = cloud.refusals.get(role);
  cloud.sites.add(`${request.host} in ${regionOf(request)}`);
  if (service === 'sts') {
    if (refusal !== undefined) {
      sendError(reply, request, refusal, 'ErrorResponse');
      return;
    }
    const action = new URLSearchParams(request.body.toString()).get('Action') ?? '';
    return void reply.writeHead(200, { 'content-type': 'text/xml' }).end(roleXml(action, cloud.issued.sts));
  }
  if (service === 'portal') {
    if (refusal !== undefined) {
      const { status, code, message } = refusal;
      return void reply.writeHead(status, { 'x-amzn-errortype': code }).end(JSON.stringify({ message }));
    }
    const expiration = Date.now() + 3_600_000;
    return void reply.end(JSON.stringify({ roleCredentials: { ...cloud.issued.sso, expiration } }));
  }
  await answerS3(cloud, store, request, reply);
}

function roleXml(action: string, { accessKeyId, secretAccessKey, sessionToken }: Identity): string {
  const expiration = new Date(Date.now() + 3_600_000).toISOString();
  const credentials =
    `<Credentials><AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey>` +
    `<SessionToken>${sessionToken}</SessionToken><Expiration>${expiration}</Expiration></Credentials>`;
  return `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result>${credentials}</${action}Result></${action}Response>`;
}

/** The region that a request was signed for. */
const regionOf = ({ headers }: CloudRequest): string =>
  /Credential=[^/]+\/\d+\/([^/]+)\//.exec(headers.authorization ?? '')?.[1] ?? 'none';

const HOST = /^(?:(?<bucket>[a-z0-9-]+)\.)?s3(?:-fips)?(?:\.dualstack)?\.(?<region>[a-z0-9-]+)\.amazonaws\.com$/;

async function answerS3(
  { identities, buckets }: Pick<Cloud, 'identities' | 'buckets'>,
  store: string,
  request: CloudRequest,
  reply: http.ServerResponse,
): Promise<void> {
  const { bucket: inHost, region = LOCAL_REGION } = HOST.exec(request.host)?.groups ?? {};
  const [path = '', query = ''] = request.url.split('?');
  const name = inHost ?? path.split('/')[1] ?? '';
  const bucket = buckets.get(name);
  const identity = identities.get(/Credential=([^/]+)/.exec(request.headers.authorization ?? '')?.[1] ?? '');
  const problem =
    (await checkSignature(request, path, query, region, identity)) ??
    checkBucket(name, bucket, region) ??
    bucket?.refuse?.(request);
  if (problem !== undefined) {
    sendError(reply, request, problem, 'Error');
    return;
  }
  await forward(store, inHost === undefined ? path : `/${inHost}${path}`, query, request, reply);
}

/** Headers that the signer adds. */
const ADDED_BY_SIGNER = ['x-amz-date', 'x-amz-security-token'];

/** The headers of a request and those that sign it. */
async function sign(
  region: string,
  credentials: Credentials,
  request: { method: string; path: string; query: string; headers: Record<string, string> },
  signingDate?: Date,
): Promise<Record<string, string>> {
  const sha256 = Hash.bind(null, 'sha256');
  const signer = new SignatureV4({ service: 's3', region, credentials, sha256, uriEscapePath: false });
  const query = Object.fromEntries(new URLSearchParams(request.query));
  return (await signer.sign({ ...request, protocol: 'http:', hostname: '', query }, { signingDate })).headers;
}

async function checkSignature(
  request: CloudRequest,
  path: string,
  query: string,
  region: string,
  identity: Identity | undefined,
): Promise<AwsError | undefined> {
  const { headers } = request;
  if (identity === undefined) {
    const message = 'The AWS Access Key Id you provided does not exist in our records.';
    return { status: 403, code: 'InvalidAccessKeyId', message };
  }
  if (regionOf(request) !== region) {
    const message = `The authorization header is malformed; the region '${regionOf(request)}' is wrong; expecting '${region}'`;
    return { status: 400, code: 'AuthorizationHeaderMalformed', message, elements: { Region: region } };
  }
  if (headers['x-amz-security-token'] !== identity.sessionToken) {
    return { status: 400, code: 'InvalidToken', message: 'The provided token is malformed or otherwise invalid.' };
  }
  if (identity.expired === true) {
    return { status: 400, code: 'ExpiredToken', message: 'The provided token has expired.' };
  }
  const names = (/SignedHeaders=([^,]+)/.exec(headers.authorization ?? '')?.[1] ?? '').split(';');
  const bodySha256 = String(headers['x-amz-content-sha256']);
  const given = Object.fromEntries(
    names.filter((name) => !ADDED_BY_SIGNER.includes(name)).map((name) => [name, String(headers[name])]),
  );
  const date = new Date(String(headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)/, '$1-$2-$3:$4:'));
  const expected = await sign(region, identity, { method: request.method, path, query, headers: given }, date);
  if (expected['authorization'] !== headers.authorization) {
    const message = 'The request signature we calculated does not match the signature you provided.';
    return { status: 403, code: 'SignatureDoesNotMatch', message };
  }
  if (createHash('sha256').update(request.body).digest('hex') !== bodySha256) {
    return { status: 400, code: 'XAmzContentSHA256Mismatch', message: 'The body has another SHA-256.' };
  }
  return undefined;
}

function checkBucket(name: string, bucket: CloudBucket | undefined, region: string): AwsError | undefined {
  if (bucket === undefined) {
    return { status: 404, code: 'NoSuchBucket', message: 'The specified bucket does not exist' };
  }
  if (bucket.region === region) return undefined;
  const endpoint = `${name}.s3.${bucket.region}.amazonaws.com`;
  const found = { 'x-amz-bucket-region': bucket.region };
  const { redirect = 301 } = bucket;
  if (redirect === 'AuthorizationHeaderMalformed') {
    const message = `The authorization header is malformed; the region '${region}' is wrong; expecting '${bucket.region}'`;
    return { status: 400, code: redirect, message, elements: { Region: bucket.region } };
  }
  // As S3 answers HEAD requests, without a body.
  if (redirect === 400) return { status: 400, code: 'BadRequest', message: 'Bad Request', headers: found };
  if (redirect === 307) {
    const message = 'Please re-send this request to the specified temporary endpoint.';
    return { status: 307, code: 'TemporaryRedirect', message, headers: found, elements: { Endpoint: endpoint } };
  }
  const message = 'The bucket you are attempting to access must be addressed using the specified endpoint.';
  const headers = redirect === 'without region' ? {} : found;
  return { status: 301, code: 'PermanentRedirect', message, headers, elements: { Endpoint: endpoint } };
}

function sendError(reply: http.ServerResponse, { method }: CloudRequest, error: AwsError, root: string): void {
  const { status, code, message, headers, elements = {} } = error;
  const more = Object.entries(elements).map(([name, text]) => `<${name}>${text}</${name}>`);
  const inner = `<Code>${code}</Code><Message>${message}</Message>${more.join('')}`;
  reply.writeHead(status, { 'content-type': 'application/xml', ...headers });
  reply.end(
    method === 'HEAD'
      ? undefined
      : root === 'Error'
        ? `<Error>${inner}</Error>`
        : `<${root}><Error>${inner}</Error></${root}>`,
  );
}

/** Sends the request to the real server, signed with the keys of that server. */
async function forward(
  store: string,
  path: string,
  query: string,
  request: CloudRequest,
  reply: http.ServerResponse,
): Promise<void> {
  const { hostname, port, host } = new URL(store);
  const kept = Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
    /^(x-amz-|content-|if-|range$)/.test(name) && name !== 'content-length' ? [[name, String(value)]] : [],
  );
  const given = Object.fromEntries(kept.filter(([name]) => !ADDED_BY_SIGNER.includes(name)));
  const { method } = request;
  const headers = await sign(LOCAL_REGION, LOCAL_CREDENTIALS, { method, path, query, headers: { ...given, host } });
  if (request.headers['content-length'] !== undefined) headers['content-length'] = String(request.body.byteLength);
  const options = { hostname, port, method, path: query === '' ? path : `${path}?${query}`, headers };
  const outgoing = http.request(options, (response) => {
    reply.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(reply);
  });
  outgoing.on('error', () => reply.destroy());
  outgoing.end(request.body);
}

/** Makes variables with which the AWS tools find credentials. Their files are in `scratch`. */
export function awsEnvironments(scratch: Scratch) {
  let files = 0;
  const file = (text: string, mode = 0o644): string => {
    const path = join(scratch.directory, `file-${(files += 1)}`);
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  };
  const profile = (lines: string, more = ''): NodeJS.ProcessEnv => ({
    ...NO_KEYS,
    AWS_CONFIG_FILE: file(`[profile work]\n${lines}\n${more}`),
    AWS_PROFILE: 'work',
  });
  const arn = (role: string): string => `arn:aws:iam::123456789012:role/${role}`;
  const keys = `aws_access_key_id = ${ACCOUNT_KEYS.accessKeyId}\naws_secret_access_key = ${ACCOUNT_KEYS.secretAccessKey}\n`;
  /** A profile of IAM Identity Center whose sign-in ends after this time. */
  const sso = (role: string, expiresInMs: number): NodeJS.ProcessEnv => {
    const home = join(scratch.directory, `home-${role}`);
    const cache = join(home, '.aws', 'sso', 'cache');
    mkdirSync(cache, { recursive: true });
    const startUrl = 'https://company.awsapps.com/start';
    const expiresAt = new Date(Date.now() + expiresInMs).toISOString();
    const token = { accessToken: 'bearer-secret', expiresAt, region: 'us-west-2', startUrl };
    writeFileSync(join(cache, `${createHash('sha1').update('company').digest('hex')}.json`), JSON.stringify(token));
    const session = `[sso-session company]\nsso_region = us-west-2\nsso_start_url = ${startUrl}\nsso_registration_scopes = sso:account:access\n`;
    const lines = `sso_session = company\nsso_account_id = 123456789012\nsso_role_name = ${role}\nregion = eu-central-1`;
    return { ...profile(lines, session), HOME: home };
  };
  return {
    file,
    profile,
    sso,
    role: (role: string, lines = ''): NodeJS.ProcessEnv =>
      profile(`role_arn = ${arn(role)}\nsource_profile = base\n${lines}`, `[profile base]\n${keys}`),
    webIdentity: (role: string, tokenFile: string): NodeJS.ProcessEnv => ({
      ...NO_KEYS,
      AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
      AWS_ROLE_ARN: arn(role),
    }),
  };
}
