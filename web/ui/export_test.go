package ui

// Visible is what is shown of a text.
var Visible = escapeControls
