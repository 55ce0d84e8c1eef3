import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';

/** Sends one message over gRPC. @returns the error of the call; undefined if it succeeded */
export function callGrpc(
  address: string,
  path: string,
  message: Buffer,
  headers: Record<string, string> = {},
): Promise<ServiceError | undefined> {
  const client = new Client(address, credentials.createInsecure());
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const bytes = (given: Buffer): Buffer => given;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, bytes, bytes, message, metadata, { deadline: Date.now() + 60_000 }, (error) => {
      client.close();
      resolve(error ?? undefined);
    });
  });
}
