import { App } from "./app.js";

new App((id) => document.getElementById(id)).start();
