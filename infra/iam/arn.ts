/** The form of an ARN of IAM. @param kind `role`, `(role|user)` */
export const iamArn = (kind: string): RegExp => new RegExp(String.raw`^arn:aws[a-z-]*:iam::\d{12}:${kind}/[^*?\s]+$`);
