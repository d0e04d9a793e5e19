package measure

const maxrssUnit = 1
