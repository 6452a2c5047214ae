package postgresproject

// ByKeyStatement is what a test asks the plan of.
const ByKeyStatement = byKey
