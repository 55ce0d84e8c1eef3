import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A private key and its self-signed certificate, in PEM. */
export interface Certificate {
  key: string;
  certificate: string;
}

/**
 * Creates a key and a self-signed certificate for 127.0.0.1 that does not expire. The certificate is for servers that
 * trust only this certificate and whose peers present it too, which only processes that can read the key can do.
 * Written in TypeScript because Node creates keys but no certificates, and not every machine has `openssl`.
 */
export function selfSignedCertificate(): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const name = sequence(der(SET, sequence(COMMON_NAME, der(UTF8_STRING, Buffer.from('triton-serving local')))));
  const address = sequence(der(OCTET_STRING_OF_ADDRESS, Buffer.from([127, 0, 0, 1])));
  const always = sequence(time('19700101000000Z'), time('99991231235959Z'));
  // RFC 5280: TBSCertificate.
  const content = sequence(
    der(VERSION, der(INTEGER, Buffer.from([2]))),
    // Positive, because the first bit is 0.
    der(INTEGER, Buffer.from([1]), randomBytes(15)),
    sequence(ED25519),
    name,
    always,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(EXTENSIONS, sequence(sequence(SUBJECT_ALTERNATIVE_NAME, der(OCTET_STRING, address)))),
  );
  const signed = sequence(content, sequence(ED25519), der(BIT_STRING, Buffer.of(0), sign(null, content, privateKey)));
  const lines = signed.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}

/** Tags of ASN.1, and the tags that X.509 assigns to the parts of a certificate. */
const [INTEGER, BIT_STRING, OCTET_STRING, UTF8_STRING] = [0x02, 0x03, 0x04, 0x0c];
const [GENERALIZED_TIME, SEQUENCE, SET] = [0x18, 0x30, 0x31];
const [OCTET_STRING_OF_ADDRESS, VERSION, EXTENSIONS] = [0x87, 0xa0, 0xa3];

const ED25519 = objectId('2b6570'); // 1.3.101.112
const COMMON_NAME = objectId('550403'); // 2.5.4.3
const SUBJECT_ALTERNATIVE_NAME = objectId('551d11'); // 2.5.29.17

function objectId(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

const sequence = (...parts: Buffer[]): Buffer => der(SEQUENCE, ...parts);
const time = (text: string): Buffer => der(GENERALIZED_TIME, Buffer.from(text));

/** One value in DER: tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
