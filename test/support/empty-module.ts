/** Replaces a module that tests do not need. Code that uses the module fails. */
export {};
